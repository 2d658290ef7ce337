-- Documents with versions that have no archive are read again, because an upstream may now keep their source. In steps,
-- because requests write these rows.
do $$
begin
  loop
    update upstream_document set is_stale = true, last_modified = null
     where ctid = any (array(select ctid from upstream_document
                              where dropped <> '{}' and (not is_stale or last_modified is not null)
                                and exists (select from unnest(dropped) reason
                                             where reason like '%: it has no archive that can be mirrored')
                              limit 1000 for no key update));
    exit when not found;
    commit;
  end loop;
end
$$;
