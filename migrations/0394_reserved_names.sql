-- A trusted publisher of a package that does not exist yet reserves its name for a while.
alter table trusted_publisher add column reservation_noted_at timestamptz;
comment on column trusted_publisher.reservation_noted_at is
  'When the admins were told that the reservation of its names lapses soon.';
