-- Sensitive acts may be confirmed at a provider: the person signs in there again, and nothing is linked.
alter table provider_sign_in add column is_confirmation boolean not null default false;
comment on column provider_sign_in.account_id is 'The signed-in account that the identity will be linked to, or that is confirmed; null for a sign-in.';
