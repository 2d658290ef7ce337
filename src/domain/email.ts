/**
 * Returns whether a text is an email address of at most 254 characters: something before and after one @, without spaces
 * and invisible characters. The tables have this rule for emails that are stored at once. It is here for an email that
 * is stored later, or not at all.
 */
export function isEmail(text: string): boolean {
  return text.length <= 254 && /^[^@\p{C}\p{Z}]+@[^@\p{C}\p{Z}]+$/u.test(text)
}
