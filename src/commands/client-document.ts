import { Command, InvalidArgumentError, Option } from 'commander'
import { operator } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'
import { describeApplication } from '../oauth/applications.ts'
import {
  approveDocument,
  type DocumentState,
  describeClientDocument,
  documentStates,
  type ListedDocument,
  listClientDocuments,
  rejectDocument,
} from '../oauth/client-documents.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, withDatabase } from './run.ts'

/** `svc client-document …` */
export function clientDocumentCommand(): Command {
  return new Command('client-document')
    .description('Client metadata documents that wait for a review (CLIENT_METADATA_DOCUMENTS).')
    .addCommand(listCommand())
    .addCommand(approveCommand())
    .addCommand(rejectCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the documents that wait for a review, oldest first.')
    .addOption(
      new Option('--state <state>', 'those in this state').choices(documentStates).default('waiting'),
    )
    .action((options: ListOptions & { state: DocumentState }) =>
      withDatabase((db) =>
        printList<ListedDocument>(options, {
          list: (part) => listClientDocuments(db, part, options.state),
          keyOf: ({ id }) => id,
          describe: describeClientDocument,
          line: ({ id, name, clientId, redirectUris }) =>
            `${id}  ${name}  ${clientId}  returns to ${redirectUris.join(' ')}`,
          none: options.state === 'waiting' ? 'No document waits.' : 'No document is rejected.',
        }),
      ),
    )
}

function approveCommand(): Command {
  return new Command('approve')
    .description(
      'Approve a document: its application is registered, or gets its new redirect URIs. Where you keep migrations, one is written too.',
    )
    .argument('<id>', 'as svc client-document list shows it', readId)
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      const approved = await withDatabase((db, config) => approveDocument(db, config, operator, id))
      if (!approved) throw unknownDocument(id)
      const { application, migration } = approved
      printResult(
        options,
        { ...describeApplication(application), migration },
        `${application.name} is approved. Its client_id is ${application.clientId}.${migration ? ` Written: ${migration}` : ''}`,
      )
    })
}

function rejectCommand(): Command {
  return new Command('reject')
    .description('Reject a document, also for when it changes. What was approved before goes on.')
    .argument('<id>', 'as svc client-document list shows it', readId)
    .option('--reason <text>', 'the reason, for administrators; at most 350 characters')
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions & { reason?: string }) => {
      const rejected = await withDatabase((db) => rejectDocument(db, operator, id, options.reason || null))
      if (!rejected) throw unknownDocument(id)
      printResult(options, describeClientDocument(rejected), `${rejected.name} is rejected.`)
    })
}

function unknownDocument(id: string): Error {
  return new Error(`There is no document ${id} to decide about: it may have changed.`)
}

function readId(text: string): string {
  const id = readRowId(text)
  if (id !== null) return id
  throw new InvalidArgumentError('It must be a number.')
}
