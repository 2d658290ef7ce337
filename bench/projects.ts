import { operator } from '../src/domain/principal.ts'
import { addPolicyRule } from '../src/projects/policies.ts'
import type { PolicyKind } from '../src/projects/policy.ts'
import { aGroup, aGroupMember, anAccount, aPersonalToken, aRepository } from '../test/support/actors.ts'
import type { Server } from './server.ts'
import { figure, table } from './table.ts'

const projects = 10_000
const packagesOfProject = 300
/** How many packages there are in all lock files, and how many versions of each. */
const packages = 3_000
const versionsOfPackage = 10

/**
 * `npm run bench -- projects` measures questions about 10,000 projects of 300 packages each, one request at a time, and what
 * they take on disk.
 */
export async function measureProjects(server: Server, count: number): Promise<string> {
  const { db } = server
  const group = await aGroup(db)
  const account = await anAccount(db)
  await aGroupMember(db, account, group, 'admin')
  const token = await aPersonalToken(db, account, { scopes: ['registry-package:rw', 'group-manage:rw'] })
  await db.query(
    `insert into locked_package (digest, name, version, normalized, entry)
     select sha256(convert_to(p || ' ' || v, 'UTF8')), 'bench/package' || p, v || '.0.0', v || '.0.0.0',
            '{"type": "library", "licenses": ["MIT"], "dist": {"type": "zip", "reference": "9fceb02d0ae598e95dc970b74767f19372d61af8"}}'
       from generate_series(1, $1) p, generate_series(1, $2) v`,
    [packages, versionsOfPackage],
  )
  await db.query(
    `with made as (insert into project (group_id, name) select $1, 'project' || i from generate_series(1, $2) i returning id)
     insert into project_lock (project_id, environment, packages, dev_packages)
     select id, 'production',
            array(select distinct first.id + ((made.id * 7919 + i * 104729) % $3)::integer
                    from generate_series(1, $4) i, (select min(id) as id from locked_package where name like 'bench/%') first
                   order by 1), '{}'
       from made`,
    [group.id, projects, packages * versionsOfPackage, packagesOfProject],
  )
  await db.query('vacuum analyze project_lock, project, locked_package')
  const { rows } = await db.query<{ relation: string; bytes: string }>(
    `select relname as relation, pg_total_relation_size(oid) as bytes from pg_class
      where relname in ('project', 'project_lock', 'locked_package', 'project_finding') and relkind = 'r'`,
  )
  const sizes = rows.map(({ relation, bytes }) => `${relation} ${figure(Number(bytes) / 2 ** 20)} MiB`)
  const url = `/api/groups/${group.name}/projects`
  const lock = JSON.stringify({
    packages: Array.from({ length: packagesOfProject }, (_, i) => ({
      name: `bench/package${i + 1}`,
      version: '1.0.0',
      license: ['MIT'],
    })),
  })
  await db.query(
    `insert into group_locked_package (group_id, package_id) select $1, id from locked_package where name like 'bench/%'`,
    [group.id],
  )
  const repository = await aRepository(db, { group, visibility: 'public' })
  const deny = (kind: PolicyKind, patterns: string[]) =>
    addPolicyRule(db, { groupId: group.id, by: operator }, { kind, patterns, reason: 'Not here' })
  const names = (many: number, name: (i: number) => string) =>
    Array.from({ length: many }, (_, i) => name(i + 1))
  for (let i = 0; i < 3; i += 1)
    await deny(
      'packages',
      names(400, (one) => `denied${i}/package${one}:<2.0`),
    )
  await deny('licenses', ['GPL-*', 'AGPL-*', 'proprietary'])
  await deny('unapproved', ['bench/*', 'symfony/*', 'psr/*-interface'])
  const policy = (many: number) => {
    const packages = names(many, (i) => `pkg://composer/bench/package${i}`)
    const body = JSON.stringify({ packages, lists: ['denied'] })
    return () => ask(`/${repository.path}/-/packages/policy/denied`, { method: 'POST', body })
  }
  const draft = { kind: 'packages', patterns: ['bench/package7:<2.0'], reason: 'Not here' }
  const acts: [string, () => Promise<Response>][] = [
    ['what rules deny of 300 packages', policy(300)],
    ['what rules deny of 2,000 packages', policy(2000)],
    ['what a new rule would break', () => askJson(`/api/groups/${group.name}/policies?dry_run`, draft)],
    ['who has a package below 2.0', () => ask(`${url}?package=bench/package7&constraint=<2.0`)],
    ['who has a package', () => ask(`${url}?package=bench/package7&limit=100`)],
    ['all projects, the first 30', () => ask(url)],
    ['which have a problem', () => ask(`${url}?affected=true`)],
    ['send a lock file of 300 packages', () => ask(`${url}/project1/lock`, { method: 'POST', body: lock })],
  ]
  const lines: string[][] = []
  for (const [name, act] of acts) {
    const times: number[] = []
    for (let i = 0; i < count; i += 1) {
      const start = performance.now()
      await (await act()).arrayBuffer()
      times.push(performance.now() - start)
    }
    times.sort((one, other) => one - other)
    lines.push([name, figure(times[Math.floor(count / 2)] ?? 0), figure(times.at(-1) ?? 0)])
  }
  return [
    `${projects.toLocaleString('en')} projects of ${packagesOfProject} packages: ${sizes.join(', ')}.`,
    table(['request', 'median ms', 'slowest'], lines),
  ].join('\n\n')

  function askJson(path: string, body: object): Promise<Response> {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    return ask(path, { method: 'POST', body: JSON.stringify(body), headers })
  }

  async function ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers, ...init })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return response
  }
}
