/* Passkeys need an API of the browser. A form with data-passkey calls it, and then sends the response. */
const decode = (text) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.charCodeAt(0))
const encode = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

/* The parts of a credential's response that the server checks. */
const parts = ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle']

async function ask(kind, options, how = {}) {
  options.challenge = decode(options.challenge)
  for (const one of [...(options.excludeCredentials ?? []), ...(options.allowCredentials ?? [])]) {
    one.id = decode(one.id)
  }
  if (kind === 'get') return navigator.credentials.get({ ...how, publicKey: options })
  options.user.id = decode(options.user.id)
  return navigator.credentials.create({ publicKey: options })
}

function describe(credential) {
  const { id, rawId, type, response } = credential
  const sent = {}
  for (const part of parts) if (response[part]) sent[part] = encode(response[part])
  if (response.getTransports) sent.transports = response.getTransports()
  const { credProps } = credential.getClientExtensionResults()
  const clientExtensionResults = credProps ? { credProps } : {}
  return JSON.stringify({ id, rawId: encode(rawId), type, response: sent, clientExtensionResults })
}

/* The browser offers its passkeys among the usernames that it fills in, as long as the challenge is valid. */
async function offerToFill(form) {
  const isPossible = await window.PublicKeyCredential?.isConditionalMediationAvailable?.()
  if (!isPossible) return
  const how = { mediation: 'conditional', signal: AbortSignal.timeout(290_000) }
  const credential = await ask('get', JSON.parse(form.dataset.options), how).catch(() => null)
  if (!credential) return
  form.elements.credential.value = describe(credential)
  form.submit()
}

for (const form of document.querySelectorAll('form[data-fills]')) offerToFill(form)

for (const form of document.querySelectorAll('form[data-passkey]:not([data-fills])')) {
  const problem = form.querySelector('[data-passkey-problem]')
  const say = (text) => {
    problem.textContent = text
    problem.hidden = false
  }
  if (!window.PublicKeyCredential) {
    say('This browser does not support passkeys on this page.')
    continue
  }
  const button = form.querySelector('button[type="submit"]')
  button.disabled = false
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    problem.hidden = true
    button.disabled = true
    try {
      form.elements.credential.value = describe(
        await ask(form.dataset.passkey, JSON.parse(form.dataset.options)),
      )
      form.submit()
    } catch (error) {
      button.disabled = false
      say(
        error.name === 'InvalidStateError'
          ? 'This device has a passkey for your account already.'
          : 'No passkey was used: it was cancelled, took too long, or there is none on this device. Try again.',
      )
    }
  })
}
