-- A recovery code lets a person replace a lost authenticator app. It is no second factor that releases a staged version.
alter table session add column recovered_at timestamptz not null default '-infinity';
