import * as z from 'zod'

/*
 * Names and descriptions are shown in terminals and on pages, and are part of the JSON that Composer reads. A terminal
 * executes control characters. Bidirectional controls and line separators make a text look different from what it is.
 * PHP's json_decode refuses a whole document that contains a lone surrogate.
 */
const unsafe = /[\p{Cc}\p{Cs}\p{Bidi_C}\u2028\u2029]/u

/**
 * Returns whether a text is one line of plain text: without control characters, bidirectional controls, line separators
 * and lone surrogates.
 */
export function isPlainText(text: string): boolean {
  return !unsafe.test(text)
}

/**
 * Removes the characters that `isPlainText` refuses, but keeps tabs and line feeds. Removes a terminal's escape
 * sequence as a whole.
 */
export function cleanText(text: string): string {
  return text
    .replace(/(?![\t\n])\p{Cc}(?:\[[0-?]*[ -/]*[@-~])?/gu, '')
    .replace(/[\p{Cs}\p{Bidi_C}\u2028\u2029]/gu, '')
}

/**
 * Invisible format characters, and letters that look like a space. A joiner between two emoji is kept, because it
 * combines them into one.
 */
const invisible =
  /(?<!\p{Extended_Pictographic}\ufe0f?)\u200d|(?!\u200d)\p{Cf}|[\u034f\u115f\u1160\u2800\u3164\uffa0]/gu

/** Returns a text of at most `maxCharacters`, and an ellipsis if it was longer. Cuts between words if it can. */
export function shortenText(text: string, maxCharacters: number): string {
  // A character has at most two UTF-16 units.
  const characters = Array.from(text.slice(0, 2 * maxCharacters + 1))
  if (characters.length <= maxCharacters) return text
  const start = characters.slice(0, maxCharacters).join('')
  return `${/^(.{20,})\s/su.exec(start)?.[1] ?? start}…`
}

/** Replaces invisible characters with their code points, such as `[U+200B]`. For names that other people choose. */
export function revealText(text: string): string {
  return text.replace(invisible, codePointOf)
}

/** Replaces invisible characters, and those that `isPlainText` refuses, with their code points. */
export function revealUnsafe(text: string): string {
  return revealText(text.replace(new RegExp(unsafe, 'gu'), codePointOf))
}

function codePointOf(character: string): string {
  return `[U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}]`
}

/**
 * Returns the result of `cleanText` as one line: tabs and line ends become spaces, and spaces at both ends are removed.
 */
export function cleanLine(text: string): string {
  return cleanText(text.replace(/[\t\n\v\f\r\u0085\u2028\u2029]+/g, ' ')).trim()
}

/** Returns a schema for one line of plain text. It removes spaces at both ends. */
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
