import { access, constants, mkdir } from 'node:fs/promises'

/** Creates the folder of DATA_DIR if it is missing. Throws an Error with its path if it cannot be created or written. */
export async function prepareDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true })
    await access(dataDir, constants.W_OK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(`The folder ${dataDir} cannot be used (${code}): set DATA_DIR to one that you may write.`)
  }
}
