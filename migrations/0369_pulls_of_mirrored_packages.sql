-- The pulls of the last days have those of packages of upstreams too.
update site_day d
   set pulls = d.pulls + (
     select coalesce(sum(r.count), 0) from recorded_download r
      where r.day = d.day
        and exists (select from mirrored_package m where m.repository_id = r.repository_id and m.name = r.package)
        and not exists (select from package p where p.repository_id = r.repository_id and p.name = r.package))
 where d.day > (now() at time zone 'utc')::date - 30;
