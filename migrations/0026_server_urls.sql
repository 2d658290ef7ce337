-- The public URLs of the running server (DESIGN §3): commands print them without the server's environment.
create table server_urls (
  is_only  boolean primary key default true constraint there_is_one_row check (is_only),
  base_url text not null check (char_length(base_url) <= 2000),
  auth_url text not null check (char_length(auth_url) <= 2000)
);
comment on table server_urls is 'Written by each start of the server, so it holds the URLs of the latest one.';
