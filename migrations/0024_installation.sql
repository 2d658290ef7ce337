-- The id of this database. The archive volume carries it, so that no other database uses or empties the volume (DESIGN §2).

create table installation (
  is_only_row boolean primary key default true constraint installation_has_one_row check (is_only_row),
  id          uuid not null default gen_random_uuid()
);
insert into installation default values;
