import { Command } from 'commander'
import { readConfig } from '../config.ts'

/** `svc serve`: what `npm start` runs. */
export function serveCommand(): Command {
  return new Command('serve')
    .description('Run the server until SIGTERM or SIGINT. All configuration comes from the environment.')
    .action(async () => {
      // Load the server's modules only here: they would double the start time of every other command.
      const { serve } = await import('../server/serve.ts')
      await serve(readConfig(process.env))
      process.exit(0)
    })
}
