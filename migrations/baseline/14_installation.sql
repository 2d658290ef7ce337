-- The installation as a whole.

-- The id of this database. The archive store carries it, so that no other database uses or empties the store.
create table installation (
  is_only_row boolean primary key default true constraint installation_has_one_row check (is_only_row),
  id          uuid not null default gen_random_uuid()
);
insert into installation default values;

-- The public URLs of the running server: commands print them without the server's environment.
create table server_urls (
  is_only  boolean primary key default true constraint there_is_one_row check (is_only),
  base_url text not null check (char_length(base_url) <= 2000),
  auth_url text not null check (char_length(auth_url) <= 2000)
);
comment on table server_urls is 'Written by each start of the server, so it holds the URLs of the latest one.';
