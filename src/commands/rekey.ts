import { Command } from 'commander'
import { rekey } from '../accounts/second-factor/rekey.ts'
import { keyFileOf } from '../accounts/second-factor/secret-key.ts'
import { jsonOption } from './options.ts'
import { printResult, withDatabase } from './run.ts'

/** `svc rekey`: encrypts the secrets of authenticator apps with a new key. */
export function rekeyCommand(): Command {
  return new Command('rekey')
    .description('Encrypt the secrets of authenticator apps with a new key. Servers can keep running.')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Without SECRET_KEY it creates a new key in DATA_DIR/secret-key. With SECRET_KEY: set SECRET_KEY to the new key and
SECRET_KEY_PREVIOUS to the old one, restart the servers, run svc rekey, and remove SECRET_KEY_PREVIOUS.
If it is interrupted, run it again.`,
    )
    .action(async (options: { json?: boolean }) => {
      const { secrets, key, file } = await withDatabase(async (db, config) => ({
        ...(await rekey(db, config)),
        file: keyFileOf(config),
      }))
      const place = key === 'file' ? `the new key in ${file}` : 'SECRET_KEY'
      const json = { secrets, key: key === 'file' ? file : key }
      printResult(options, json, `${secrets} secrets are now encrypted with ${place}.`)
    })
}
