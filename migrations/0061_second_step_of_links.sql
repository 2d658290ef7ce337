-- Single sign-on: linking a provider to an account with a second factor. After the password, the link waits for the
-- second factor like a sign-in.
alter table sign_in_step
  add column proof_hash bytea check (octet_length(proof_hash) = 32);
comment on column sign_in_step.proof_hash is 'The proven_identity that the step links. It may be gone: then the step links nothing, and signs nobody in. Null for a sign-in with a password.';
