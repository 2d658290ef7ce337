-- The keys that sign ID tokens and logout tokens (OPENID 242). Each algorithm has one key that signs, and one that is
-- published before it does. A retired key has lost its private part, and still verifies what it has signed.
create table openid_key (
  id             bigint generated always as identity primary key,
  kid            text not null unique constraint openid_kid_is_a_thumbprint check (kid ~ '^[\w-]{43}$'),
  alg            text not null constraint openid_alg_is_known check (alg in ('RS256', 'ES256')),
  public_jwk     jsonb not null constraint openid_jwk_is_public check (not public_jwk ? 'd'),
  key_id         bytea constraint openid_key_id_has_8_bytes check (octet_length(key_id) = 8),
  sealed_secrets bytea constraint openid_secrets_max_4_kib check (octet_length(sealed_secrets) <= 4096),
  created_at     timestamptz not null default now(),
  activated_at   timestamptz,
  retired_at     timestamptz,
  constraint only_a_retired_key_has_no_secret check ((retired_at is null) = (sealed_secrets is not null)
                                                    and (key_id is null) = (sealed_secrets is null)),
  constraint only_a_key_that_signed_is_retired check (retired_at is null or activated_at is not null)
);
create unique index one_current_openid_key on openid_key (alg) where activated_at is not null and retired_at is null;
create unique index one_next_openid_key on openid_key (alg) where activated_at is null;
comment on column openid_key.kid is 'The thumbprint of the public key (RFC 7638).';
comment on column openid_key.sealed_secrets is
  'AES-256-GCM: 12 bytes nonce, ciphertext, 16 bytes tag. JSON with the private key as a JWK.';
comment on column openid_key.activated_at is 'Since when it signs. Null for the next key.';
