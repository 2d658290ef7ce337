-- Releasing a staged version needs a second factor or a passkey of the last five minutes. Another proof is not enough.
alter table session add column factor_proved_at timestamptz not null default '-infinity';
