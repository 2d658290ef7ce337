/** Signs an account in like a browser, at the server with this URL. Returns the header Cookie of the session. */
export async function signInOver(
  url: string,
  { username, password }: { username: string; password: string },
): Promise<string> {
  const cookiesOf = (response: Response) =>
    response.headers.getSetCookie().map((cookie) => cookie.split(';', 1)[0] ?? '')
  const form = await fetch(`${url}/login`)
  const [, token = ''] = /name="csrf_token" value="([^"]+)"/.exec(await form.text()) ?? []
  const response = await fetch(`${url}/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie: cookiesOf(form).join('; ') },
    body: new URLSearchParams({ csrf_token: token, username, password }),
  })
  if (response.status !== 303) throw new Error(`sign-in: ${response.status}`)
  return [...cookiesOf(form), ...cookiesOf(response)].filter((cookie) => !cookie.endsWith('=')).join('; ')
}
