import { Command } from 'commander'
import { operator } from '../domain/principal.ts'
import { claimVendorByHand, releaseVendorByHand } from '../upstreams/claims.ts'
import { listVendorClaims, type VendorClaim } from '../upstreams/tables/vendor-claims.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theGroup, withDatabase } from './run.ts'

/** `svc vendor …` */
export function vendorCommand(): Command {
  return new Command('vendor')
    .description('Vendors whose packages come from a group’s own repositories, never from upstreams.')
    .addCommand(claimCommand())
    .addCommand(listCommand())
    .addCommand(releaseCommand())
}

function claimCommand(): Command {
  return new Command('claim')
    .description('Claim a vendor for a group. Publishing a package claims its vendor automatically.')
    .argument('<group>', 'such as acme')
    .argument('<vendor>', 'such as acme, of acme/secret')
    .option('--except <patterns...>', 'names that may still come from upstreams, such as symfony/*')
    .option('--force', 'claim the vendor even if some of its packages come from upstreams')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExamples:\n  svc vendor claim acme acme\n  svc vendor claim acme symfony --except "symfony/*"',
    )
    .action(
      async (
        groupName: string,
        vendor: string,
        options: { except?: string[]; force?: boolean } & JsonOptions,
      ) => {
        const claim = await withDatabase(async (db) =>
          claimVendorByHand(db, operator, await theGroup(db, groupName), {
            vendor,
            exceptions: options.except ?? [],
            force: options.force ?? false,
          }),
        )
        printResult(
          options,
          { group: groupName, vendor, exceptions: claim.exceptions },
          `The vendor ${vendor} belongs to ${groupName}.`,
        )
      },
    )
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the vendors of a group.')
    .argument('<group>', 'such as acme')
    .action((groupName: string, options: ListOptions) =>
      withDatabase(async (db) => {
        const { id } = await theGroup(db, groupName)
        await printList<VendorClaim>(options, {
          list: (part) => listVendorClaims(db, id, part),
          keyOf: ({ vendor }) => vendor,
          describe: ({ vendor, exceptions, byHand }) => ({ vendor, exceptions, by_hand: byHand }),
          line: ({ vendor, exceptions, byHand }) =>
            `${vendor}  ${byHand ? 'by hand' : 'published'}${exceptions.length > 0 ? `  except ${exceptions.join(' ')}` : ''}`,
          none: `${groupName} has no vendors.`,
        })
      }),
    )
}

function releaseCommand(): Command {
  return new Command('release')
    .description('Release a vendor that was claimed with svc vendor claim.')
    .argument('<group>', 'such as acme')
    .argument('<vendor>', 'the claimed vendor')
    .addOption(jsonOption())
    .action(async (groupName: string, vendor: string, options: JsonOptions) => {
      await withDatabase(async (db) =>
        releaseVendorByHand(db, operator, await theGroup(db, groupName), vendor),
      )
      printResult(
        options,
        { group: groupName, vendor },
        `The vendor ${vendor} no longer belongs to ${groupName}.`,
      )
    })
}
