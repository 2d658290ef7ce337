import { z } from 'zod'

/** A line of text, trimmed, of at most so many characters and without control characters: it may reach a terminal. */
export function plainText(maxCharacters: number) {
  return z
    .string()
    .max(2 * maxCharacters)
    .trim()
    .refine((text) => Array.from(text).length <= maxCharacters && !/\p{Cc}|\p{Cs}/u.test(text), {
      message: `must be text of at most ${maxCharacters} characters, without control characters`,
    })
}
