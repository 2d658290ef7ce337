import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { syncFolder } from './new-file.ts'

/** The settings that decide the keys. */
export type KeySettings = Pick<Config, 'secretKey' | 'previousSecretKey' | 'dataDir'>

/**
 * A key that encrypts secrets that svc must know later: those of authenticator apps, Git sources and webhooks, and the
 * keys that sign ID tokens.
 */
export interface SecretKey {
  /** 8 bytes that identify the key. They are stored with each secret. The key cannot be derived from them. */
  id: Buffer
  /** 32 bytes, for AES-256-GCM. */
  bytes: Buffer
}

/** An encrypted secret, as the database stores it. */
export interface SealedSecret {
  keyId: Buffer
  /** 12 bytes nonce, ciphertext, 16 bytes tag. */
  sealed: Buffer
}

const nonceBytes = 12
const tagBytes = 16

/** Returns the path of the key file, which is used when `SECRET_KEY` is not set. */
export function keyFileOf({ dataDir }: Pick<KeySettings, 'dataDir'>): string {
  return join(dataDir, 'secret-key')
}

/**
 * Returns the keys of this server. The first one encrypts, each one decrypts: `SECRET_KEY`, `SECRET_KEY_PREVIOUS`, and
 * the lines of the key file. Without `SECRET_KEY`, a missing file is created. The file is read at each call, so a running
 * server has the new key as soon as `svc rekey` has written it.
 */
export async function readSecretKeys(settings: KeySettings): Promise<[SecretKey, ...SecretKey[]]> {
  const given = [settings.secretKey, settings.previousSecretKey].filter((key) => key !== null)
  const lines = await readKeyFile(settings)
  if (settings.secretKey === null && lines.length === 0) lines.push(await createKeyFile(settings))
  const texts = settings.secretKey === null ? [...lines, ...given] : [...given, ...lines]
  return texts.map(deriveKey) as [SecretKey, ...SecretKey[]]
}

/** Returns the lines of the key file, the current key first. Empty when there is no file. */
export async function readKeyFile(settings: Pick<KeySettings, 'dataDir'>): Promise<string[]> {
  const path = keyFileOf(settings)
  let content: string
  try {
    content = await readFile(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return []
    throw new Error(`The key file ${path} cannot be read (${code}).`)
  }
  const lines = content.split(/\s+/).filter((line) => line !== '')
  if (lines.length === 0 || lines.some((line) => line.length < 32)) {
    throw new Error(
      `The key file ${path} is damaged. Copy it from a backup, or remove it to lose its secrets.`,
    )
  }
  return lines
}

/** Writes the key file, the current key first. Readers see the old file or the new one. */
export async function writeKeyFile(settings: Pick<KeySettings, 'dataDir'>, lines: string[]): Promise<void> {
  await rename(await writePartial(settings, lines), keyFileOf(settings))
  await syncFolder(settings.dataDir)
}

/** Returns a new key as text: 32 random bytes in base64url. */
export function makeKeyText(): string {
  return randomBytes(32).toString('base64url')
}

/** Returns the key of a text of at least 32 characters. */
export function deriveKey(text: string): SecretKey {
  const derive = (purpose: string, length: number) =>
    Buffer.from(hkdfSync('sha256', text, '', `svc ${purpose}`, length))
  return { id: derive('key id', 8), bytes: derive('second factors', 32) }
}

/** Encrypts a secret. `owner` names what it belongs to: a copy in another row cannot be decrypted. */
export function sealSecret(key: SecretKey, owner: string, secret: string): SealedSecret {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key.bytes, nonce).setAAD(Buffer.from(owner))
  const sealed = Buffer.concat([nonce, cipher.update(secret, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return { keyId: key.id, sealed }
}

/** Decrypts a secret of an owner. Null when none of the keys encrypted it, or it was changed. */
export function openSecret(
  keys: readonly SecretKey[],
  owner: string,
  { keyId, sealed }: SealedSecret,
): string | null {
  const key = keys.find(({ id }) => id.equals(keyId))
  if (!key) return null
  const nonce = sealed.subarray(0, nonceBytes)
  const decipher = createDecipheriv('aes-256-gcm', key.bytes, nonce, { authTagLength: tagBytes })
    .setAAD(Buffer.from(owner))
    .setAuthTag(sealed.subarray(-tagBytes))
  try {
    const opened = decipher.update(sealed.subarray(nonceBytes, -tagBytes))
    return Buffer.concat([opened, decipher.final()]).toString('utf8')
  } catch {
    return null
  }
}

/** Creates the key file and returns its key. If another process was faster, returns the key of that process. */
async function createKeyFile(settings: Pick<KeySettings, 'dataDir'>): Promise<string> {
  const partial = await writePartial(settings, [makeKeyText()])
  try {
    // Unlike a rename, a link never replaces a file.
    await link(partial, keyFileOf(settings))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(partial, { force: true })
  }
  // Also when another process was faster: its name for the file may not be durable yet.
  await syncFolder(settings.dataDir)
  const [key] = await readKeyFile(settings)
  return key as string
}

async function writePartial(settings: Pick<KeySettings, 'dataDir'>, lines: string[]): Promise<string> {
  await mkdir(settings.dataDir, { recursive: true })
  const path = `${keyFileOf(settings)}.${randomBytes(6).toString('hex')}.partial`
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(`${lines.join('\n')}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  return path
}
