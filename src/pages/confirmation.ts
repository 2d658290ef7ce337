import { page } from '../http/pages.ts'

/** A question before an act. Without the script it is a page; with it, the same form is shown in a dialog. */
export interface Confirmation {
  title: string
  explanation: string
  /** Where the form posts to. */
  action: string
  /** Hidden fields. */
  fields: Record<string, string>
  /** The label of the button. */
  button: string
  /** A text that the person writes, such as a reason; null for none. */
  ask: { name: string; label: string; maxLength: number } | null
  /** Where Cancel leads. */
  back: string
}

/** Shows a question before an act. */
export const confirmationPage = page<Confirmation>('pages/confirmation')
