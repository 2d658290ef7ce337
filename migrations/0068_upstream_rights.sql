-- Only operators let the requests of an upstream reach private hosts, and have credentials on other hosts than its own.
-- Upstreams that may use credentials reach private hosts, as before.
alter table upstream add column reaches_private_hosts boolean not null default false,
                     add column credential_hosts text[] not null default '{api.github.com}'
                       constraint upstream_credential_hosts_are_few check (cardinality(credential_hosts) <= 50);
update upstream set reaches_private_hosts = true where uses_credentials;
comment on column upstream.reaches_private_hosts is 'Whether requests to it reach the hosts of OUTBOUND_PRIVATE_HOSTS.';
comment on column upstream.credential_hosts is 'Other hosts that get the credentials of UPSTREAM_AUTH_FILE, besides that of its URL.';
