import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import pg from 'pg'
import { describe, expect, it, vi } from 'vitest'
import { aPersonalToken } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { revokePersonalTokens } from '../../support/last-use-rows.ts'
import { aPublisher, basic } from '../../support/registry-actors.ts'

const t = useApp()

/** Lists the statements that run during an act and whose name begins with `name`. */
async function listStatements(name: string, act: () => Promise<unknown>): Promise<pg.QueryConfig[]> {
  const query = vi.spyOn(pg.Client.prototype, 'query')
  try {
    await act()
    const statements = query.mock.calls.map(([one]: unknown[]) => one as pg.QueryConfig)
    return statements.filter((one) => one.name?.startsWith(name))
  } finally {
    query.mockRestore()
  }
}

async function countStatements(name: string, act: () => Promise<unknown>): Promise<number> {
  return (await listStatements(name, act)).length
}

/** Counts the requests of statements that find documents, and the tokens that the statements check. */
function countChecks(statements: pg.QueryConfig[]): { requests: number; tokens: number } {
  // The values are names, `is_dev` and places of the requests, and then groups, names and hashes of tokens.
  const values = statements.map((one) => one.values as unknown[])
  return {
    requests: values.flatMap(([, , places]) => places).length,
    tokens: values.flatMap(([, , , , , hashes]) => hashes).length,
  }
}

describe('pulls that come together', () => {
  it('share a statement, and each gets the response for its own path, token and coding', async () => {
    const one = await aPublisher(t)
    const other = await aPublisher(t)
    await one.push('1.0.0', { name: 'acme/one', manifest: { description: 'of one' } })
    await one.push('1.0.0-odd', { name: 'acme/one', manifest: { description: 'odd' } })
    await other.push('1.0.0', { name: 'acme/one', manifest: { description: 'of the other' } })
    await revokePersonalTokens(t.db, other.account)
    const wrong = basic(`${one.token.slice(0, -1)}_`)

    const asked: [string, Promise<{ statusCode: number; rawPayload: Buffer }>, number, string][] = []
    const statements = await countStatements('list-package-documents', async () => {
      for (let round = 0; round < 5; round += 1) {
        const p2 = 'p2/acme/one.json'
        asked.push(
          ['plain', one.ask(p2), 200, 'of one'],
          ['gzip', one.ask(p2, { headers: { 'accept-encoding': 'gzip' } }), 200, 'of one'],
          ['br', one.ask(p2, { headers: { 'accept-encoding': 'br' } }), 200, 'of one'],
          ['~dev', one.ask('p2/acme/one~dev.json'), 200, 'odd'],
          ['no package', one.ask('p2/acme/none.json'), 404, 'package not found'],
          ['revoked', other.ask(p2), 401, 'not authorized'],
          ['elsewhere', other.ask(p2, { headers: { authorization: one.authorization } }), 404, 'repository'],
          ['nobody', one.ask(p2, { headers: { authorization: undefined } }), 401, 'not authorized'],
          ['no token', one.ask(p2, { headers: { authorization: wrong } }), 401, 'not authorized'],
        )
      }
      await Promise.all(asked.map(([, response]) => response))
    })
    for (const [who, response, status, text] of asked) {
      const { statusCode, rawPayload } = await response
      const body =
        who === 'gzip' ? gunzipSync(rawPayload) : who === 'br' ? brotliDecompressSync(rawPayload) : rawPayload
      expect([who, statusCode, body.toString()]).toEqual([who, status, expect.stringContaining(text)])
    }
    expect(statements).toBeLessThan(6)
  })

  it('share one query for the same URL with the same credentials', async () => {
    const { push, ask, authorization, account } = await aPublisher(t)
    await push('1.0.0')
    const second = `Bearer ${await aPersonalToken(t.db, account, { scopes: ['registry-package:r'] })}`
    const statements = await listStatements('list-package-documents', async () => {
      const responses = await Promise.all(
        [authorization, second].flatMap((header) =>
          Array.from({ length: 8 }, () => ask('p2/acme/lib.json', { headers: { authorization: header } })),
        ),
      )
      expect(responses.map(({ statusCode }) => statusCode)).toEqual(Array.from({ length: 16 }, () => 200))
    })
    // A request that arrives while a statement with its key runs needs the next one.
    expect(countChecks(statements).requests).toBeLessThan(10)
  })

  it('check a permission once for one repository and one token', async () => {
    const [one, other] = [await aPublisher(t), await aPublisher(t)]
    for (const name of ['acme/a', 'acme/b', 'acme/c']) {
      await one.push('1.0.0', { name, manifest: { description: `${name} of one` } })
      await other.push('1.0.0', { name, manifest: { description: `${name} of the other` } })
    }
    const names = ['acme/a', 'acme/b', 'acme/c']
    const statements = await listStatements('list-package-documents', async () => {
      const texts = await Promise.all(
        names.flatMap((name) => [one, other].map(async ({ ask }) => (await ask(`p2/${name}.json`)).body)),
      )
      expect(texts).toEqual(
        names.flatMap((name) => [
          expect.stringContaining(`${name} of one"`),
          expect.stringContaining(`${name} of the other"`),
        ]),
      )
    })
    const { requests, tokens } = countChecks(statements)
    expect(requests).toBe(6)
    expect(tokens).toBeLessThanOrEqual(2 * statements.length)
    expect(tokens).toBeLessThan(requests)
  })

  it('audit packages with one statement', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const query = vi.spyOn(pg.Client.prototype, 'query')
    try {
      const response = await ask('security-advisories', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        payload: 'packages[]=acme/lib&packages[]=acme/other',
      })
      expect(response.json()).toEqual({ advisories: { 'acme/lib': [] } })
      const names = query.mock.calls.map(([one]: unknown[]) => (one as pg.QueryConfig).name ?? '')
      expect(names.filter((name) => /^(find|list)-/.test(name))).toEqual(['find-advisories'])
    } finally {
      query.mockRestore()
    }
  })

  it('share queries for packages.json and archives too', async () => {
    const publishers = await Promise.all(Array.from({ length: 8 }, () => aPublisher(t)))
    const dists = await Promise.all(
      publishers.map(async ({ push, path }, i) => {
        const { url } = (await push('1.0.0', { name: `acme/p${i}` })).json() as { url: string }
        return url.slice(url.indexOf(path) + path.length)
      }),
    )
    // The first pull after a new name also renders the document.
    await Promise.all(publishers.map(({ ask }) => ask('packages.json')))
    const roots = await countStatements('list-root-documents', async () => {
      const responses = await Promise.all(publishers.map(({ ask }) => ask('packages.json')))
      expect(responses.map((response) => response.json()['available-packages'])).toEqual(
        publishers.map((_, i) => [`acme/p${i}`]),
      )
    })
    const archives = await countStatements('list-downloads', async () => {
      const responses = await Promise.all(publishers.map(({ ask }, i) => ask(dists[i] ?? '')))
      expect(
        responses.map(({ statusCode, headers }) => [statusCode, headers['content-disposition']]),
      ).toEqual(publishers.map((_, i) => [200, `attachment; filename="acme-p${i}-1.0.0.zip"`]))
    })
    expect([roots < 4, archives < 4]).toEqual([true, true])
  })

  it('see revocations that were made before they arrived', async () => {
    const { push, ask, account } = await aPublisher(t)
    await push('1.0.0')
    const busy = Array.from({ length: 40 }, () => ask('p2/acme/lib.json'))
    await revokePersonalTokens(t.db, account)
    const late = await Promise.all(Array.from({ length: 40 }, () => ask('p2/acme/lib.json')))
    expect(new Set(late.map(({ statusCode }) => statusCode))).toEqual(new Set([401]))
    await Promise.all(busy)
  })

  it('read the bytes of a document once, also when the cache does not have them', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const read = async (path: string, expected: string) => {
      const statement = path === 'packages.json' ? 'list-root-pieces' : 'list-package-pieces'
      return countStatements(statement, async () => {
        const responses = await Promise.all(Array.from({ length: 16 }, () => ask(path)))
        expect(responses.filter(({ body }) => body.includes(expected))).toHaveLength(16)
      })
    }
    expect(await read('p2/acme/lib.json', '"1.0.0"')).toBe(1)
    expect(await read('p2/acme/lib.json', '"1.0.0"')).toBe(0)
    expect(await read('packages.json', 'acme/lib')).toBe(1)
    await push('1.1.0')
    expect(await read('p2/acme/lib.json', '"1.1.0"')).toBe(1)
  })

  it('never get the bytes from before a publish that was acknowledged', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    for (let patch = 1; patch < 6; patch += 1) {
      const meanwhile = Array.from({ length: 8 }, () => ask('p2/acme/lib.json'))
      await push(`1.0.${patch}`)
      const after = await Promise.all(Array.from({ length: 8 }, () => ask('p2/acme/lib.json')))
      for (const { body } of after) expect(body).toContain(`"1.0.${patch}"`)
      await Promise.all(meanwhile)
    }
  })
})
