import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import { forEachCall } from '../../database/shared-statements.ts'
import {
  type Access,
  accessColumns,
  accessOfCall,
  accessTable,
  type Door,
  doorArrays,
  doorColumns,
  doorValues,
} from '../access.ts'
import type { EncodedDocument, Encoding } from './encodings.ts'

/** A document as one statement answers it, with the access to it. */
export interface FoundDocument extends Access {
  /** Changes with every change of the document; null when there is no such document. */
  revision: string | null
  lastModified: Date
  /** Null when the caller knows this revision already. */
  bytes: Buffer | null
}

/** Which document is wanted, and in which coding. */
export interface WantedDocument {
  door: Door
  encoding: Encoding
  /** The revision of which the caller has the bytes; null when it has none. */
  knownRevision: string | null
}

const wantedColumns = { ...doorColumns, encoding: 'text', known_revision: 'bigint' }
const documentColumns = `${accessColumns}, d.revision, d.last_modified as "lastModified",
  case when d.revision is not distinct from call.known_revision then null
       when call.encoding = 'br' then d.brotli when call.encoding = 'gzip' then d.gzip else d.plain end as bytes`

function wantedArrays(wanted: readonly WantedDocument[]) {
  return [
    ...doorArrays(wanted.map(({ door }) => door)),
    wanted.map(({ encoding }) => encoding),
    wanted.map(({ knownRevision }) => knownRevision),
  ]
}

/** Packages' documents, `p2/<name>.json` or `p2/<name>~dev.json`: one for each that is wanted, in that order. */
export async function listPackageDocuments(
  db: Queryable,
  wanted: readonly (WantedDocument & { packageName: string; isDev: boolean })[],
): Promise<FoundDocument[]> {
  const { rows } = await db.query<FoundDocument>({
    name: 'list-package-documents',
    text: forEachCall(
      { ...wantedColumns, package_name: 'text', is_dev: 'boolean' },
      `select ${documentColumns}
         from ${accessOfCall}
         left join package p on p.repository_id = a.repository_id and p.name = call.package_name
         left join package_document d on d.package_id = p.id and d.is_dev = call.is_dev`,
    ),
    values: [
      ...wantedArrays(wanted),
      wanted.map(({ packageName }) => packageName),
      wanted.map(({ isDev }) => isDev),
    ],
  })
  return rows
}

/** Repositories' packages.json: one for each that is wanted, in that order. */
export async function listRootDocuments(
  db: Queryable,
  wanted: readonly WantedDocument[],
): Promise<FoundDocument[]> {
  const { rows } = await db.query<FoundDocument>({
    name: 'list-root-documents',
    text: forEachCall(
      wantedColumns,
      `select ${documentColumns}
         from ${accessOfCall}
         left join root_document d on d.repository_id = a.repository_id`,
    ),
    values: wantedArrays(wanted),
  })
  return rows
}

/** A document that changed, as mirrors are told: `~dev` after the name of the one for development versions. */
export interface DocumentChange {
  type: 'update'
  package: string
  /** Seconds since 1970. */
  time: number
}

/**
 * The package documents that changed since then, in ten-thousandths of a second, and the moment to ask from next time.
 * That lies a minute back, because a change that is being committed bears the time at which it began.
 */
export async function listChanges(
  db: Queryable,
  door: Door,
  since: number | null,
): Promise<Access & { actions: DocumentChange[]; timestamp: number }> {
  const { rows } = await db.query<Access & { actions: DocumentChange[]; timestamp: number }>({
    name: 'list-changes',
    text: `select ${accessColumns},
                  (extract(epoch from date_trunc('second', now()) - interval '1 minute') * 10000)::float8 as timestamp,
                  (select coalesce(json_agg(json_build_object(
                            'type', 'update', 'package', p.name || case when d.is_dev then '~dev' else '' end,
                            'time', extract(epoch from d.last_modified)::bigint)
                            order by d.last_modified, p.name collate "C", d.is_dev), '[]')
                     from package p
                     join package_document d on d.package_id = p.id
                    where p.repository_id = a.repository_id
                      and d.last_modified >= to_timestamp($4::float8 / 10000)) as actions
             from ${accessTable}`,
    values: [...doorValues(door), since],
  })
  return rows[0] as Access & { actions: DocumentChange[]; timestamp: number }
}

/** Replaces a package's document. Its Last-Modified grows by a second at least: that is all an HTTP date can tell. */
export async function savePackageDocument(
  tx: pg.PoolClient,
  document: { packageId: string; isDev: boolean; baseUrl: string },
  { identity, gzip, br }: EncodedDocument,
): Promise<void> {
  await tx.query({
    name: 'save-package-document',
    text: `insert into package_document as d (package_id, is_dev, base_url, last_modified, plain, gzip, brotli)
           values ($1, $2, $3, date_trunc('second', now()), $4, $5, $6)
           on conflict (package_id, is_dev) do update
              set base_url = excluded.base_url, plain = excluded.plain, gzip = excluded.gzip,
                  brotli = excluded.brotli, revision = excluded.revision,
                  last_modified = greatest(excluded.last_modified, d.last_modified + interval '1 second')`,
    values: [document.packageId, document.isDev, document.baseUrl, identity, gzip, br],
  })
}

/** Replaces a repository's packages.json. Its Last-Modified grows by a second at least. */
export async function saveRootDocument(
  tx: pg.PoolClient,
  document: { repositoryId: string; baseUrl: string },
  { identity, gzip, br }: EncodedDocument,
): Promise<void> {
  await tx.query(
    `insert into root_document as d (repository_id, base_url, last_modified, plain, gzip, brotli)
     values ($1, $2, date_trunc('second', now()), $3, $4, $5)
     on conflict (repository_id) do update
        set base_url = excluded.base_url, plain = excluded.plain, gzip = excluded.gzip,
            brotli = excluded.brotli, revision = excluded.revision,
            last_modified = greatest(excluded.last_modified, d.last_modified + interval '1 second')`,
    [document.repositoryId, document.baseUrl, identity, gzip, br],
  )
}

/** The packages of which a document holds links built from another address; the first thousand. */
export async function listOutdatedPackages(db: Queryable, baseUrl: string): Promise<string[]> {
  const { rows } = await db.query<{ packageId: string }>(
    `select distinct package_id as "packageId" from package_document where base_url <> $1 limit 1000`,
    [baseUrl],
  )
  return rows.map(({ packageId }) => packageId)
}

/** The repositories of which packages.json holds links built from another address. */
export async function listOutdatedRoots(db: Queryable, baseUrl: string): Promise<string[]> {
  const { rows } = await db.query<{ repositoryId: string }>(
    `select repository_id as "repositoryId" from root_document where base_url <> $1`,
    [baseUrl],
  )
  return rows.map(({ repositoryId }) => repositoryId)
}
