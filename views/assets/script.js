/* Improves pages that also work without this file (CONTRACT 8.1). */

/*
 * Keys: / moves the focus to the search field, g and a letter open a page, and ? shows them all. They do nothing while the
 * focus is in a field, and a person can turn them off, because speech input may press single keys (WCAG 2.1.4).
 */
const places = { h: ['/', 'Home'], e: ['/explore', 'Explore'], t: ['/settings/tokens', 'Tokens'] }
Object.assign(places, {
  a: ['/settings/authorizations', 'Applications'],
  s: ['/settings/account', 'Settings'],
  d: ['/docs', 'Documentation'],
})
const keysAreOff = () => localStorage.getItem('keys') === 'off'
let pressedG = Number.NEGATIVE_INFINITY
document.addEventListener('keydown', (event) => {
  const { target, key } = event
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return
  if (target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]')) return
  if (key === '?') return showKeys()
  if (keysAreOff()) return
  const isSecond = event.timeStamp - pressedG < 1500
  pressedG = key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY
  if (isSecond && Object.hasOwn(places, key)) location.href = places[key][0]
  const field = key === '/' && document.querySelector('#find')
  if (!field) return
  event.preventDefault()
  field.focus()
})

function showKeys() {
  const dialog = document.createElement('dialog')
  const row = (keys, words) =>
    `<dt>${keys.map((key) => `<kbd>${key}</kbd>`).join(' then ')}</dt><dd>${words}</dd>`
  const rows = Object.entries(places).map(([key, [, words]]) => row(['g', key], words))
  dialog.innerHTML = `<form method="dialog"><h2 id="keys">Keyboard</h2>
    <dl class="facts">${[row(['/'], 'Search'), ...rows, row(['?'], 'This list')].join('')}</dl>
    <label class="choice"><input type="checkbox"${keysAreOff() ? '' : ' checked'}> Use these keys</label>
    <p class="actions"><button>Close</button></p></form>`
  dialog.setAttribute('aria-labelledby', 'keys')
  dialog.querySelector('input').addEventListener('change', ({ target }) => {
    if (target.checked) localStorage.removeItem('keys')
    else localStorage.setItem('keys', 'off')
  })
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}

/*
 * Shows how long ago a time was, and the local time as a tooltip. In a sentence, the preposition is in the element too:
 * “expires on 3 May 2026” becomes “expires in 7 hours”.
 */
const units = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
]
/* A day that is further away stays a date: people plan with it, and a phone shows no tooltip. */
const soon = 2 * 86_400
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const absolute = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' })
function showTimes(part) {
  for (const time of part.querySelectorAll('time[datetime]')) {
    const moment = new Date(time.dateTime)
    if (Number.isNaN(moment.getTime())) continue
    const seconds = (moment.getTime() - Date.now()) / 1000
    const [unit, length] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ['minute', 60]
    const count = Math.round(seconds / length)
    time.title = absolute.format(moment)
    if (seconds > soon) continue
    const now = seconds > 0 ? 'in a moment' : 'just now'
    time.textContent = count === 0 ? now : relative.format(count, unit)
  }
}
showTimes(document)

/* Every command and hash gets a button that copies it. */
const icon =
  '<svg viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5"><rect x="5.5" y="5.5" width="8" height="8" rx="1.5"/><path d="M3.5 10.5h-1v-8h8v1"/></svg>'
if (navigator.clipboard) {
  for (const source of document.querySelectorAll('pre:not(.readme, .diff) > code, code.copy')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy secondary'
    const show = (words) => {
      if (words === 'Copy') button.innerHTML = icon
      else button.textContent = words
      button.setAttribute('aria-label', words)
      button.title = words
    }
    show('Copy')
    button.setAttribute('aria-live', 'polite')
    button.addEventListener('click', async () => {
      try {
        const copied = source.cloneNode(true)
        // The numbers of lines.
        for (const number of copied.querySelectorAll('a[href^="#L"]')) number.remove()
        await navigator.clipboard.writeText(copied.textContent.trim())
        show('Copied')
      } catch {
        show('Not allowed')
      }
      setTimeout(show, 2000, 'Copy')
    })
    const block = source.closest('pre')
    const frame = document.createElement(block ? 'div' : 'span')
    frame.className = block ? 'copyable' : 'copied'
    const framed = block ?? source
    framed.replaceWith(frame)
    frame.append(framed, button)
  }
}

/* On a narrow screen, scroll the main menu and the tabs so that their current link is visible. */
for (const tab of document.querySelectorAll('.tabs [aria-current]')) {
  const row = tab.closest('nav')
  row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2
}

/*
 * After a confirmation, the form that waited for it is sent without another click. A browser that has loaded this file
 * slowly keeps this page in its history: there, Back leads to the page of the form.
 */
const continued = document.querySelector('form[data-continue]')
if (continued) {
  const { pathname, search } = continued.querySelector('a')
  history.replaceState(null, '', pathname + search)
  continued.requestSubmit()
}

/* The problem of a form may be below the first screen. */
const refusal = document.querySelector('main [role="alert"]')
if (refusal && refusal.getBoundingClientRect().bottom > innerHeight)
  refusal.scrollIntoView({ block: 'center' })

/* Filters a list while somebody types in the search field above it. */
for (const field of document.querySelectorAll('input[data-filters]')) {
  const items = [...document.querySelectorAll(`${field.dataset.filters} > *`)]
  if (items.length === 0) continue
  const none = document.createElement('p')
  none.className = 'empty'
  none.setAttribute('role', 'status')
  none.hidden = true
  items[0].parentElement.after(none)
  field.addEventListener('input', () => {
    const word = field.value.trim().toLowerCase()
    for (const item of items) item.hidden = !item.textContent.toLowerCase().includes(word)
    none.hidden = items.some((item) => !item.hidden)
    items[0].parentElement.hidden = !none.hidden
    none.textContent = none.hidden
      ? ''
      : 'Nothing on this page matches. Press Enter to search everything here.'
  })
}

/* The server checks some forms while somebody types. The part #checked of its response replaces that of this page. */
for (const form of document.querySelectorAll('form[data-checks]')) {
  const shown = document.querySelector('#checked')
  let timer
  let running
  const check = async () => {
    running?.abort()
    running = new AbortController()
    const sent = new FormData(form)
    // The first bytes tell what a file is. One byte too many tells that it is too large.
    for (const { name, files, dataset } of form.querySelectorAll('input[type="file"]')) {
      const file = files[0]
      const most = Number(dataset.maxBytes)
      if (file) sent.set(name, file.slice(0, file.size > most ? most + 1 : 64), 'file')
    }
    try {
      const response = await fetch(form.action, { method: 'POST', body: sent, signal: running.signal })
      const page = new DOMParser().parseFromString(await response.text(), 'text/html')
      const isOpen = Boolean(shown.querySelector('details')?.open)
      shown.replaceChildren(...page.querySelector('#checked').childNodes)
      shown.querySelector('details')?.toggleAttribute('open', isOpen)
    } catch {
      // Sending the form shows the reason.
    }
  }
  form.addEventListener('input', () => {
    clearTimeout(timer)
    timer = setTimeout(check, 600)
  })
}

/*
 * Parts of a page that wait for something are replaced when it has arrived. The page is loaded again more and more rarely,
 * only while it is visible, and for at most an hour.
 */
const waiting = () => [...document.querySelectorAll('[data-waits]')]
const lookUntil = Date.now() + 3_600_000
let pause = 2_000
let nextLook
async function lookAgain() {
  clearTimeout(nextLook)
  if (document.hidden || Date.now() > lookUntil || waiting().length === 0) return
  const page = await fetch(location.href)
    .then((response) => response.text())
    .then((text) => new DOMParser().parseFromString(text, 'text/html'))
    .catch(() => null)
  for (const part of waiting()) {
    const found = page?.getElementById(part.id)
    if (!found || found.dataset.waits === part.dataset.waits) continue
    part.replaceChildren(...found.childNodes)
    if (found.dataset.waits) part.dataset.waits = found.dataset.waits
    else delete part.dataset.waits
    showTimes(part)
    pause = 2_000
  }
  pause = Math.min(pause * 1.2, 15_000)
  clearTimeout(nextLook)
  nextLook = setTimeout(lookAgain, pause)
}
if (waiting().length > 0) {
  nextLook = setTimeout(lookAgain, pause)
  document.addEventListener('visibilitychange', lookAgain)
}

/* A link or a form that leads to a confirmation page opens the question in a dialog instead. */
for (const source of document.querySelectorAll('[data-confirm]')) {
  const isForm = source.matches('form')
  source.addEventListener(isForm ? 'submit' : 'click', async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    const chosen = isForm ? event.submitter : source
    // The menu of a row closes when one of its acts is chosen.
    const menu = chosen.closest('details.acts')
    const opener = menu?.querySelector('summary') ?? chosen
    const url = isForm ? `${source.action}?${new URLSearchParams(new FormData(source))}` : source.href
    try {
      const response = await fetch(url)
      const page = new DOMParser().parseFromString(await response.text(), 'text/html')
      const question = page.querySelector('[data-question]')
      if (!response.ok || !question) throw new Error('no question')
      const dialog = document.createElement('dialog')
      dialog.setAttribute('aria-label', chosen.textContent.trim())
      dialog.append(document.adoptNode(question))
      dialog.querySelector('[data-cancel]')?.addEventListener('click', (cancel) => {
        cancel.preventDefault()
        dialog.close()
      })
      dialog.addEventListener('close', () => {
        dialog.remove()
        opener.focus()
      })
      document.body.append(dialog)
      if (menu) menu.open = false
      dialog.showModal()
    } catch {
      location.href = url
    }
  })
}

/* An upload shows its progress. The whole area of the field takes a file that is dropped. */
function watchUpload() {
  const form = document.querySelector('form[data-upload]')
  if (!form) return
  const field = form.querySelector('input[type="file"]')
  const area = field.closest('.drop')
  for (const type of ['dragover', 'dragleave', 'drop']) {
    area.addEventListener(type, (event) => {
      event.preventDefault()
      area.classList.toggle('over', type === 'dragover')
      if (type === 'drop' && event.dataTransfer.files.length > 0) field.files = event.dataTransfer.files
    })
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const bar = document.createElement('progress')
    bar.setAttribute('aria-label', 'Upload')
    form.append(bar)
    const button = form.querySelector('button[type="submit"]')
    button.disabled = true
    const request = new XMLHttpRequest()
    request.responseType = 'document'
    request.upload.addEventListener('progress', ({ loaded, total }) => {
      bar.max = total
      bar.value = loaded
      if (loaded === total) bar.removeAttribute('value')
    })
    request.addEventListener('load', () => {
      // The response is the page of the upload, or this page again with the reason of the rejection.
      if (request.status === 200 && request.responseURL !== form.action) location.href = request.responseURL
      else if (request.response) {
        document.querySelector('main').replaceWith(document.adoptNode(request.response.querySelector('main')))
        watchUpload()
        document.querySelector('[role="alert"]')?.scrollIntoView()
      } else location.reload()
    })
    request.addEventListener('error', () => {
      bar.remove()
      button.disabled = false
      const problem = document.createElement('p')
      problem.className = 'problem'
      problem.setAttribute('role', 'alert')
      problem.textContent = 'The upload was interrupted. Try again.'
      form.before(problem)
    })
    request.open('POST', form.action)
    request.send(new FormData(form))
  })
}
watchUpload()

/* Escape, or a click outside, closes a menu. A menu that opens below the screen scrolls into view. */
const menus = document.querySelectorAll('details.menu, details.acts')
document.addEventListener('click', (event) => {
  for (const menu of menus) if (!menu.contains(event.target)) menu.open = false
})
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return
  for (const menu of menus) {
    if (!menu.open) continue
    menu.open = false
    menu.querySelector('summary').focus()
  }
})
for (const menu of menus) {
  menu.addEventListener('toggle', () => {
    if (menu.open) menu.querySelector('.menu-items').scrollIntoView({ block: 'nearest' })
  })
}
