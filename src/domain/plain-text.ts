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
