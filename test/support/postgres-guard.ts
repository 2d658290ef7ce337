import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { removeLeftovers } from './postgres.ts'

// Removes what a test run leaves behind. The run holds the other end of this pipe, which closes when the run ends, in
// whatever way. Workers of the run may live some seconds longer, and their files are then removed too.
process.stdin.resume()
await once(process.stdin, 'end')
for (let second = 0; second < 10; second += 1) {
  await removeLeftovers()
  await sleep(1000)
}
