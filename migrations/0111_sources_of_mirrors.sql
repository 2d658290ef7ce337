-- Whether mirrored packages of an upstream keep their source.
alter table upstream add column keeps_source boolean not null default false;
comment on column upstream.keeps_source is 'Whether documents name the place of the code, from which Composer can clone it without this server.';
