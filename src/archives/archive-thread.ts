import { constants, setPriority } from 'node:os'
import { serveThread } from '../domain/threads.ts'
import { type ArchiveTask, runArchiveTask } from './archive-tasks.ts'

// Pulls come first when the processors are busy. Only Linux has a priority for each thread.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL)

serveThread((task: ArchiveTask) => runArchiveTask(task))
