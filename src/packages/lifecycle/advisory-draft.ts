import * as z from 'zod'
import { isConstraint, maxConstraintLength } from '../../composer/constraint.ts'
import { plainText } from '../../domain/plain-text.ts'
import { type AdvisoryText, severities } from '../tables/package-warnings.ts'

/** The rules of an advisory, for the API, the page and the command. */
export const AdvisoryDraft = z
  .strictObject({
    title: plainText(255, 1).meta({
      description: 'What is wrong, in one line',
      example: 'Path traversal in the archive reader',
    }),
    // A constraint that Composer cannot parse would break every project that loads the package.
    affected_versions: z
      .string()
      .min(1)
      .max(maxConstraintLength)
      .refine(isConstraint, { message: 'must be a version constraint, such as <1.2.3 or ^2.0' })
      .meta({ description: 'A Composer constraint', example: '<1.2.3' }),
    cve: z
      .string()
      .regex(/^CVE-\d{4}-\d{4,19}$/, { message: 'must be a CVE id, such as CVE-2026-12345' })
      .nullish()
      .meta({ description: 'CVE id', example: 'CVE-2026-12345' }),
    link: z
      .string()
      .max(2000)
      .regex(/^https?:\/\/[!-~]+$/, { message: 'must be an http or https URL' })
      .nullish()
      .meta({ description: 'A page about it', example: 'https://example.com/advisories/17' }),
    severity: z.enum(severities).nullish().meta({ description: 'How severe it is' }),
  })
  .meta({ id: 'AdvisoryDraft' })

const problems = {
  title: 'Give a title of at most 255 characters.',
  affected_versions: 'The affected versions must be a version constraint, such as <1.2.3 or ^2.0.',
  cve: 'A CVE must be written as CVE-2026-12345.',
  link: 'The link must be an http or https URL.',
  severity: 'Choose one of the severities.',
} as const satisfies Record<keyof typeof AdvisoryDraft.shape, string>

/**
 * Reads an advisory from texts that a person typed. An empty text stands for no value. Returns the advisory, or a
 * sentence about the first text that breaks a rule.
 */
export function readAdvisory(typed: Record<keyof typeof problems, string>): AdvisoryText | string {
  const { title, affected_versions, cve, link, severity } = typed
  const draft = AdvisoryDraft.safeParse({
    title,
    affected_versions,
    cve: cve || null,
    link: link || null,
    severity: severity || null,
  })
  if (!draft.success) return problems[draft.error.issues[0]?.path[0] as keyof typeof problems]
  const { data } = draft
  return {
    title: data.title,
    affectedVersions: data.affected_versions,
    cve: data.cve ?? null,
    link: data.link ?? null,
    severity: data.severity ?? null,
  }
}

/** The maximum length of the reason of a quarantine, in characters. */
export const maxQuarantineReasonCharacters = 500

/** The rule of the reason of a quarantine. Composer shows it to everyone who tries to install the version. */
export const QuarantineReason = plainText(maxQuarantineReasonCharacters, 1)
