import { Command } from 'commander'
import { readConfig } from '../config.ts'
import { serve } from '../server/serve.ts'

/** `svc serve`: what `npm start` runs. */
export function serveCommand(): Command {
  return new Command('serve')
    .description('Run the server until SIGTERM or SIGINT. All configuration comes from the environment.')
    .action(async () => {
      await serve(readConfig(process.env))
      process.exit(0)
    })
}
