-- Returns the media type of an image from its first bytes. Null for a format that some browsers cannot show.
create or replace function image_type(image bytea) returns text
language sql immutable parallel safe as $$
  select case
    when substring(image for 8) = '\x89504e470d0a1a0a' then 'image/png'
    when substring(image for 3) = '\xffd8ff' then 'image/jpeg'
    when substring(image for 6) in ('GIF87a', 'GIF89a') then 'image/gif'
    when substring(image for 4) = 'RIFF' and substring(image from 9 for 4) = 'WEBP' then 'image/webp'
  end
$$;
