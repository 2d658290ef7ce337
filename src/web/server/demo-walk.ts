import type { Config } from '../../config.ts'
import { registryUrl } from '../../groups/repositories.ts'
import type { Demo } from './demo.ts'

/** The local server of the walk receives the code here. It is the demo's Redirect URL with a port (RFC 8252 §7.3). */
const callback = { port: 8123, uri: 'http://127.0.0.1:8123/callback' }

/**
 * Returns the five-minute walk through the main features. It can be pasted into a shell, line by line or at once. The
 * first line lets an interactive zsh accept comments.
 */
export function describeWalk(demo: Demo, { baseUrl, authUrl }: Config): string {
  return `
[ -z "$ZSH_VERSION" ] || setopt interactive_comments
# Here is a demo to try svc with. Its secrets are shown only now. Open a second terminal, and paste the commands there.
#   account  ${demo.username}   password  ${demo.password}
#   administrator  ${demo.administrator.username}   password  ${demo.administrator.password}

# 1. Sign in: open ${baseUrl}/login. Home leads through the packages of the demo.

# 2. Authorize an application: paste this, then open the link in the browser, approve, and see the tokens.
#    ${authorizationLink(demo, authUrl)}
CODE=$(node -e '${listener}')
curl -sS -w '\\n' -u ${demo.clientId}:${demo.clientSecret} ${authUrl}/oauth2/token -d grant_type=authorization_code -d "code=$CODE"

# 3. Make a package and push it with a personal access token. The access_token above works as well.
TOKEN=${demo.token}
cd "$(mktemp -d)" && mkdir src
printf '%s\\n' '${composerJson}' > composer.json
printf '%s\\n' '<?php namespace Demo; class Hello { static function say() { echo "Hello from ${demo.repository}\\n"; } }' > src/Hello.php
composer archive --format=zip --file=package
curl -sS -w '\\n' -u "svc:$TOKEN" -T package.zip ${registryUrl(baseUrl, demo.repository)}upload/demo/hello/1.0.0

# 4. Require it in another project, and run its code.
cd "$(mktemp -d)" && echo '{}' > composer.json
${composerSettings(demo, baseUrl).join('\n')}
composer require demo/hello:^1.0
php -r 'require "vendor/autoload.php"; Demo\\Hello::say();'
`
}

/** Waits for the browser's redirect, and prints its code. */
const listener = `require("http").createServer((request, response) => {
  const { searchParams } = new URL(request.url, "http://x")
  const result = searchParams.get("code") || searchParams.get("error")
  response.end("Back to the shell.", () => result && process.exit(console.log(result)))
}).listen(${callback.port}, "127.0.0.1")`

const composerJson = JSON.stringify({
  name: 'demo/hello',
  description: 'Says hello',
  autoload: { 'psr-4': { 'Demo\\': 'src/' } },
  archive: { exclude: ['auth.json', 'composer.lock', 'vendor'] },
})

function authorizationLink({ clientId }: Demo, authUrl: string): string {
  const parameters = { response_type: 'code', client_id: clientId, redirect_uri: callback.uri, state: 'demo' }
  return `${authUrl}/oauth2/auth?${new URLSearchParams(parameters).toString()}`
}

/** Returns the Composer settings of SPEC 4.5 for one project. They also disable packagist.org. */
function composerSettings({ repository }: Demo, baseUrl: string): string[] {
  const { host, protocol } = new URL(baseUrl)
  return [
    ...(protocol === 'http:' ? ['composer config secure-http false'] : []),
    'composer config repositories.packagist.org false',
    `composer config repositories.svc composer ${registryUrl(baseUrl, repository)}`,
    `composer config http-basic.${host} svc "$TOKEN"`,
  ]
}
