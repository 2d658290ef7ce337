-- Returns the tag of a document: its revision, and the first half of the SHA-256 of its uncompressed bytes.
create or replace function content_tag_of(revision bigint, plain bytea) returns text
language sql immutable parallel safe as $$
  select revision || '-' || left(encode(sha256(plain), 'hex'), 32)
$$;
