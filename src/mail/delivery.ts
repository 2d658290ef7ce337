import type { MailSettings } from '../config.ts'
import { readSiteLogo, type Site, type SiteLogo } from '../domain/site.ts'
import { FailedForGood } from '../jobs/job.ts'
import { type Mail, type MailSite, renderHtml, renderText } from './mail.ts'

/** The time that one delivery may take, the connection included. */
const maxDeliverySeconds = 60
/** How long each step waits for the mail server. */
const stepMilliseconds = 20_000
/** An address that needs no quotes (RFC 5321 §4.1.2), in ASCII or not. */
const plainAddress = /^[^\s@<>()[\]\\,;:"\p{Cc}]+@[^\s@<>()[\]\\,;:"\p{Cc}]+$/u

/**
 * Sends a mail through the mail server of SMTP_URL. Throws FailedForGood when the server permanently refuses the
 * recipient or the text (5xx, RFC 5321 §4.2.1); any other error is worth a retry. The errors contain no email address.
 */
export async function deliver(
  settings: MailSettings,
  from: MailSite,
  mail: Mail,
  signal: AbortSignal,
): Promise<void> {
  // A comma or an angle bracket could make two addresses of one.
  if (!plainAddress.test(mail.to.address))
    throw new FailedForGood('The address of a mail has special characters.')
  // Load it only here: commands queue mails, and send none.
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    url: settings.smtpUrl,
    connectionTimeout: stepMilliseconds,
    greetingTimeout: stepMilliseconds,
    socketTimeout: stepMilliseconds,
    dnsTimeout: stepMilliseconds,
    // The contents come from svc only: nothing in them names a file or a URL to attach.
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  const logo = await readMailLogo(from.site)
  const limit = AbortSignal.any([signal, AbortSignal.timeout(maxDeliverySeconds * 1000)])
  try {
    const sent = transport.sendMail({
      from: settings.from,
      // Pass an object: in a text, a name with a comma would become a second recipient.
      to: { name: mail.to.name, address: mail.to.address },
      subject: mail.subject,
      ...(from.site.contact !== null && { replyTo: from.site.contact }),
      text: renderText(mail, from),
      html: renderHtml(mail, from, logo !== null),
      attachments:
        logo === null
          ? []
          : [
              {
                cid: 'logo',
                filename: 'logo',
                content: logo.bytes,
                contentType: logo.type,
                contentDisposition: 'inline',
              },
            ],
      headers: headersOf(mail),
      signal: limit,
    })
    // A stop must not wait for the mail server, in any step of the SMTP dialog.
    await Promise.race([sent, rejectWhenAborted(limit)])
  } catch (error) {
    throw describeFailure(error as SmtpError)
  } finally {
    transport.close()
  }
}

function headersOf({ unsubscribe }: Mail): Record<string, string> {
  return {
    // RFC 3834 §5: out-of-office programs do not reply.
    'Auto-Submitted': 'auto-generated',
    'X-Auto-Response-Suppress': 'All',
    ...(unsubscribe && { 'List-Unsubscribe': `<${unsubscribe.url}>` }),
    // RFC 8058 §3.1: only for https. The request of the mail program has no cookie.
    ...(unsubscribe?.url.startsWith('https:') && { 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }),
  }
}

/** Returns the logo that mails contain. Null for formats that mail programs do not show, and when it cannot be read. */
async function readMailLogo(site: Site): Promise<SiteLogo | null> {
  const logo = await readSiteLogo(site).catch(() => null)
  return logo !== null && /^image\/(?:png|jpeg|gif)$/.test(logo.type) ? logo : null
}

function rejectWhenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = () => reject(new Error('The delivery took too long, or was stopped.'))
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
}

/** The members of nodemailer's errors that are read here. */
interface SmtpError extends Error {
  code?: string
  command?: string
  response?: string
  permanent?: boolean
}

/**
 * Returns whether a mail server refuses this mail for good: its recipient or its text. Other refusals, such as of the
 * sender, are configuration mistakes, and are retried. Many servers report these at RCPT TO too, with the codes of a
 * policy (5.7, RFC 3463) or a plain 554.
 */
function isAboutOneMail(command: string | undefined, response = ''): boolean {
  if (command === 'DATA') return true
  if (command !== 'RCPT TO') return false
  const [, status, subject, detail] = /^(5\d\d)[ -](?:5\.(\d{1,3})\.(\d{1,3}))?/.exec(response) ?? []
  if (subject === undefined) return status !== '554' && !/relay|denied|authenticat/i.test(response)
  // 5.1.7 and 5.1.8 are about the address of the sender.
  return subject === '2' || (subject === '1' && detail !== '7' && detail !== '8')
}

function describeFailure({ code, command, message, response, permanent }: SmtpError): Error {
  // Mail servers repeat the address of the recipient. It must not be in the log.
  const reason = (response ?? message).replace(/[^\s<>@]+@[^\s<>@]+/g, '…').slice(0, 500)
  const where = [code, command].filter(Boolean).join(' ')
  const isForGood = permanent === true && isAboutOneMail(command, response)
  const text = `The mail server did not accept a mail (${where}): ${reason}`
  return isForGood ? new FailedForGood(text) : new Error(text)
}
