import { Command } from 'commander'
import { registryUrl } from '../repositories/repositories.ts'
import { makeDemo, resetDemo } from '../server/demo.ts'
import { describeWalk } from '../server/demo-walk.ts'
import { jsonOption } from './options.ts'
import { printResult, withDatabase } from './run.ts'

/** `svc demo`: creates the demo. The first start on an empty embedded database does so too. */
export function demoCommand(): Command {
  return new Command('demo')
    .description(
      'Create an account, a repository, an application and a token to try svc, and print commands to paste.',
    )
    .option('--reset', 'give the demo a new password, secret and token, and print it again')
    .addOption(jsonOption())
    .action(async (options: { reset?: boolean; json?: boolean }) => {
      await withDatabase(async (db, config) => {
        const demo = options.reset ? await resetDemo(db) : await makeDemo(db)
        const { clientId, clientSecret, ...rest } = demo
        const json = {
          ...rest,
          registry_url: registryUrl(config.baseUrl, demo.repository),
          client_id: clientId,
          client_secret: clientSecret,
        }
        printResult(options, json, describeWalk(demo, config).trim())
      })
    })
}
