-- The former name of a group is an alias: lock files contain URLs of its registries. The name of a group that ever had
-- a package stays reserved for ever, because a new owner could offer packages under these URLs.
alter table repository_group add column has_published boolean not null default false;
comment on column repository_group.has_published is 'A repository with packages was deleted. Packages that exist count too.';

update reserved_group_name n
   set reserved_until = 'infinity'
 where exists (select from repository r
                where r.group_id = n.group_id
                  and (exists (select from package p where p.repository_id = r.id)
                       or exists (select from mirrored_package m where m.repository_id = r.id)));
