import { Command } from 'commander'
import { readConfig } from '../config.ts'

/** `svc serve`: what `npm start` runs. */
export function serveCommand(): Command {
  return new Command('serve')
    .description('Run the server until SIGTERM or SIGINT. All configuration comes from the environment.')
    .action(async () => {
      // Loaded only here: the server's modules would double the time that every other command takes to start.
      const { serve } = await import('../server/serve.ts')
      await serve(readConfig(process.env))
      process.exit(0)
    })
}
