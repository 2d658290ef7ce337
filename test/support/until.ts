import { setTimeout as sleep } from 'node:timers/promises'

/** Long enough for a program that starts on a machine that runs ten times as much. */
const patienceMilliseconds = 200_000

/** Waits until a condition holds. After 200 seconds it throws an Error with what did not happen. */
export async function untilTrue(
  isTrue: () => Promise<boolean>,
  explain: () => string | Promise<string>,
): Promise<void> {
  const started = performance.now()
  while (!(await isTrue())) {
    if (performance.now() - started > patienceMilliseconds) throw new Error(await explain())
    await sleep(50)
  }
}
