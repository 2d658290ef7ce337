import { z } from 'zod'

/*
 * Names and descriptions are shown in terminals and on pages, and are part of the JSON that Composer reads. A terminal
 * executes control characters. Bidirectional controls and line separators make a text look different from what it is.
 * For a lone surrogate PHP's json_decode refuses the whole document.
 */
const unsafe = /[\p{Cc}\p{Cs}\p{Bidi_C}\u2028\u2029]/u

/** Returns whether a text is one line without control, bidirectional or separator characters and lone surrogates. */
export function isPlainText(text: string): boolean {
  return !unsafe.test(text)
}

/** Removes those characters, but keeps tabs and line feeds. A terminal's escape sequence is removed as a whole. */
export function cleanText(text: string): string {
  return text
    .replace(/(?![\t\n])\p{Cc}(?:\[[0-?]*[ -/]*[@-~])?/gu, '')
    .replace(/[\p{Cs}\p{Bidi_C}\u2028\u2029]/gu, '')
}

/** Format characters that nobody sees, and letters that look like space. Between two emoji a joiner makes one of them. */
const invisible =
  /(?<!\p{Extended_Pictographic}\ufe0f?)\u200d|(?!\u200d)\p{Cf}|[\u034f\u115f\u1160\u2800\u3164\uffa0]/gu

/** Replaces characters that nobody sees by their code point: `[U+200B]`. For names that others choose. */
export function revealText(text: string): string {
  const name = (character: string) => character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')
  return text.replace(invisible, (character) => `[U+${name(character)}]`)
}

/** `cleanText` on one line: tabs and line ends become spaces, and the ends are trimmed. */
export function cleanLine(text: string): string {
  return cleanText(text.replace(/[\t\n\v\f\r\u0085\u2028\u2029]+/g, ' ')).trim()
}

/** The schema of one line of plain text, without spaces at its ends. */
export function plainText(maxCharacters: number, minCharacters = 0) {
  return z
    .string()
    .trim()
    .min(minCharacters)
    .refine((text) => Array.from(text).length <= maxCharacters, {
      message: `must be text of at most ${maxCharacters} characters`,
    })
    .refine((text) => isPlainText(text), {
      message: 'must be text without control characters',
    })
    .meta({ maxLength: maxCharacters })
}
