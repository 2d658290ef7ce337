-- Renders a repository's filter.json from its current quarantines and the upstreams' malware flags. If the bytes
-- changed, its last_modified grows by at least a second. The first one is later than the creation time of the
-- repository, which is the Last-Modified of a repository without this document.
create or replace function render_filter_document(the_repository_id bigint) returns void
language plpgsql as $$
declare
  content bytea;
  next_revision bigint;
begin
  -- The next statement begins after the lock is held, so it sees what another transaction has just committed.
  perform from repository where id = the_repository_id for no key update;
  -- After the lock, so that revisions grow in the order of the renderings.
  next_revision := nextval('document_revision');

  select convert_to(json_build_object('filter', json_build_object('malware', coalesce(q.constraints, '{}')))::text, 'UTF8')
    into content
    from (select json_object_agg(n.name, n.constraints order by n.name collate "C") as constraints
            from (select p.name, string_agg('==' || v.composer, ' || ' order by v.id) as constraints
                    from package p join package_version v on v.package_id = p.id
                   where p.repository_id = the_repository_id and v.quarantined_at is not null
                   group by p.name
                  union all
                  select m.name, string_agg(distinct f.constraints, ' || ')
                    from mirrored_package m,
                         lateral (select e ->> 'constraint' as constraints from jsonb_array_elements(m.flags) e
                                   union select m.summary where m.summary is not null) f
                   where m.repository_id = the_repository_id and (m.flags <> '[]' or m.summary is not null)
                     and not exists (select from package p where p.repository_id = the_repository_id and p.name = m.name)
                   group by m.name) n) as q;

  insert into filter_document as d (repository_id, last_modified, plain, revision, content_tag)
  select r.id, date_trunc('second', greatest(now(), r.created_at + interval '1 second')), content, next_revision,
         content_tag_of(next_revision, content)
    from repository r
   where r.id = the_repository_id
      on conflict (repository_id) do update
         set plain = excluded.plain, revision = excluded.revision, content_tag = excluded.content_tag,
             last_modified = case when d.plain = excluded.plain then d.last_modified
               else greatest(excluded.last_modified, d.last_modified + interval '1 second') end;
end
$$;
