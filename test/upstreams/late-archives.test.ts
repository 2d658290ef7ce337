import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { openArchiveStore } from '../../src/archives/store-owner.ts'
import { openStorageRoom } from '../../src/groups/storage-room.ts'
import { openArchiveMirror } from '../../src/upstreams/archive-mirror.ts'
import { openUpstreamClient } from '../../src/upstreams/client/fetch.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { mirroredArchives, takeFetch } from '../support/mirrored-rows.ts'
import { aPackageZip, expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()

it('a request for an archive whose bytes are late gets 503, and the fetch goes on', async () => {
  const { call, ask, repository } = await aCaller(t)
  await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
  upstream.offer('late/lib', ['1.0.0'])
  const [entry] = expand((await ask('p2/late/lib.json')).body, 'late/lib')
  const { reference = '' } = { ...(entry?.['dist'] as object) } as { reference?: string }
  const asked = new Promise<ServerResponse>((resolve) => {
    upstream.fail('/archives/late/lib/1.0.0.zip', (_, response) => resolve(response))
  })

  const client = openUpstreamClient(t.config)
  const archives = await openArchiveStore(t.config)
  const { maxArchiveBytes } = t.config
  const mirror = openArchiveMirror(
    { db: t.db, client, archives, room: openStorageRoom(t), maxArchiveBytes, patience: 50, extendEvery: 20 },
    openLog('silent'),
  )
  const wanted = {
    repositoryId: repository.id,
    packageName: 'late/lib',
    version: '1.0.0',
    reference,
    type: 'zip',
  }
  const late = { status: 503, body: { warning: expect.stringContaining('did not arrive in time') } }
  await expect(mirror.serve(wanted), 'the first request').rejects.toMatchObject(late)
  await expect(mirror.serve(wanted), 'a request that waits for it').rejects.toMatchObject(late)

  // Another process would fetch it too if the turn of this one ended.
  const response = await asked
  await takeFetch(t.db, 1)
  const turn = async () =>
    (await mirroredArchives(t.db)).map(({ fetchingSeconds }) => (fetchingSeconds ?? 0) > 30)
  await expect.poll(turn).toEqual([true])
  response.end(aPackageZip('late/lib'))
  await mirror.settle()
  expect(await mirror.serve(wanted)).toMatchObject({ kind: 'stored' })
  await client.close()
})
