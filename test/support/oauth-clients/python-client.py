"""Does an authorization with a Python library: one step a line of stdin, one line of JSON for each."""

import json
import sys

library, registration = sys.argv[1], json.loads(sys.argv[2])
issuer = registration["issuer"]
token_url = issuer + "/oauth2/token"
scope = "account-profile:r registry-package:rw"


class Authlib:
    """authlib: HTTP Basic; it sends the charset with the content type."""

    def __init__(self):
        from authlib.integrations.requests_client import OAuth2Session

        self.session = OAuth2Session(
            registration["clientId"],
            registration["clientSecret"],
            scope=scope,
            redirect_uri=registration["redirectUri"],
            code_challenge_method="S256",
        )
        self.verifier = "v" * 48

    def begin(self):
        url, _state = self.session.create_authorization_url(issuer + "/oauth2/auth", code_verifier=self.verifier)
        return url

    def finish(self, callback):
        return self.session.fetch_token(
            token_url, authorization_response=callback, code_verifier=self.verifier
        )

    def refresh(self):
        return self.session.refresh_token(token_url)

    def revoke(self):
        response = self.session.revoke_token(
            issuer + "/oauth2/revoke", token=self.session.token["refresh_token"], token_type_hint="refresh_token"
        )
        response.raise_for_status()


class RequestsOauthlib:
    """requests-oauthlib: HTTP Basic; it raises when the returned scope differs from the requested one. No revocation."""

    def __init__(self):
        from requests_oauthlib import OAuth2Session

        self.session = OAuth2Session(
            registration["clientId"], scope=scope.split(), redirect_uri=registration["redirectUri"]
        )
        self.auth = (registration["clientId"], registration["clientSecret"])

    def begin(self):
        url, _state = self.session.authorization_url(issuer + "/oauth2/auth")
        return url

    def finish(self, callback):
        return self.session.fetch_token(
            token_url, authorization_response=callback, client_secret=registration["clientSecret"]
        )

    def refresh(self):
        return self.session.refresh_token(token_url, auth=self.auth)


client = {"authlib": Authlib, "requests_oauthlib": RequestsOauthlib}[library]()


def take(step, *arguments):
    result = getattr(client, step)(*arguments)
    if not isinstance(result, dict):
        return result
    return {"accessToken": result["access_token"], "refreshToken": result["refresh_token"]}


for line in sys.stdin:
    try:
        reply = {"result": take(*line.split())}
    except Exception as error:
        reply = {"refusal": str(error)}
    print(json.dumps(reply), flush=True)
