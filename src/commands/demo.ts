import { Command } from 'commander'
import { registryUrl } from '../repositories/repositories.ts'
import { makeDemo } from '../server/demo.ts'
import { describeWalk } from '../server/demo-walk.ts'
import { jsonOption } from './options.ts'
import { answer, withDatabase } from './run.ts'

/** `svc demo`: what the first start on an empty embedded database does by itself. */
export function demoCommand(): Command {
  return new Command('demo')
    .description(
      'Make an account, a repository, an application and a token to try svc with; print what to paste.',
    )
    .addOption(jsonOption())
    .action(async (options: { json?: boolean }) => {
      await withDatabase(async (db, config) => {
        const demo = await makeDemo(db)
        const { clientId, clientSecret, ...rest } = demo
        const json = {
          ...rest,
          registry_url: registryUrl(config.baseUrl, demo.repository),
          client_id: clientId,
          client_secret: clientSecret,
        }
        answer(options, json, describeWalk(demo, config).trim())
      })
    })
}
