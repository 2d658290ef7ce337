import argon2 from 'argon2'

/** argon2id with OWASP's smallest recommended cost: 33 ms, against 240 ms of the library's default (DESIGN §5). */
const cost = { type: argon2.argon2id, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

/** A hash of the same cost that no password is known for: what an unknown account's password is checked against. */
export const nobodysHash =
  '$argon2id$v=19$m=19456,p=1,t=2$zkY1icGpUMymFBlYwv7JiQ$kEpWsGuzHeS+BEd2N9QKnOHJO9MsW7ISXlU+6Q7t9KU'

/** Longer passwords are refused before they are hashed. */
export const maxPasswordBytes = 1024

/** Shortest password that a person may choose, in characters (NIST SP 800-63B §5.1.1.2). */
export const minPasswordCharacters = 8

/** The stored form of a password: argon2id in PHC notation. */
export function hashPassword(password: string): Promise<string> {
  return argon2.hash(password, cost)
}

/** True when the password is the one that was hashed. */
export async function isPassword(password: string, hash: string): Promise<boolean> {
  return Buffer.byteLength(password) <= maxPasswordBytes && (await argon2.verify(hash, password))
}

/** True when the hash was made with other parameters than today's. */
export function needsRehash(hash: string): boolean {
  return argon2.needsRehash(hash, cost)
}
