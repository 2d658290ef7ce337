import { access, constants, mkdir } from 'node:fs/promises'

/** Makes the folder of DATA_DIR when it is missing. Throws, and names it, when this user cannot make or write it. */
export async function prepareDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true })
    await access(dataDir, constants.W_OK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(`The folder ${dataDir} cannot be used (${code}): set DATA_DIR to one that you may write.`)
  }
}
