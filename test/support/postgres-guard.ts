import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { removeLeftovers } from './postgres.ts'

// Ends what a test run leaves behind. The run holds the other end of this pipe: it ends with the run, however that
// happens. The run's workers may outlive it for some seconds, and theirs is removed then.
process.stdin.resume()
await once(process.stdin, 'end')
for (let second = 0; second < 10; second += 1) {
  await removeLeftovers()
  await sleep(1000)
}
