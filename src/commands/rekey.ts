import { Command } from 'commander'
import { rekey } from '../accounts/second-factor/rekey.ts'
import { keyFileOf } from '../accounts/second-factor/secret-key.ts'
import { jsonOption } from './options.ts'
import { printResult, withDatabase } from './run.ts'

/** `svc rekey`: a new key for the secrets of authenticator apps. */
export function rekeyCommand(): Command {
  return new Command('rekey')
    .description('Encrypt the secrets of authenticator apps under a new key. Servers can keep running.')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Without SECRET_KEY it makes a new key in DATA_DIR/secret-key. With it: set SECRET_KEY to the new key and
SECRET_KEY_PREVIOUS to the old one, restart the servers, run svc rekey, and remove SECRET_KEY_PREVIOUS.
It can be run again when it was interrupted.`,
    )
    .action(async (options: { json?: boolean }) => {
      const { secrets, key, file } = await withDatabase(async (db, config) => ({
        ...(await rekey(db, config)),
        file: keyFileOf(config),
      }))
      const place = key === 'file' ? `the new key in ${file}` : 'SECRET_KEY'
      const json = { secrets, key: key === 'file' ? file : key }
      printResult(options, json, `${secrets} secrets were encrypted again, under ${place}.`)
    })
}
