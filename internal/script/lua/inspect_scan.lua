-- Go on through the keys of a server.
-- KEYS  1 any key that lives there
-- ARGV  1 cursor: 0, or that of the last reply
--       2 pattern
--       3 how many keys to go through, about
--       4 the type of those that are wanted
-- RETURN  two: the next cursor, or 0 at the end; keys, of hashes only those that look like locks
local page = redis.call('scan', ARGV[1], 'match', ARGV[2], 'count', ARGV[3], 'type', ARGV[4])
if ARGV[4] ~= 'hash' then return page end
local keys = {}
for _, key in ipairs(page[2]) do
  if bytes < 0 then
    keys[#keys + 1] = key
  else
    -- One that cannot be read here is for those who ask for it to find out about.
    local read, mode = pcall(lock, key, 20)
    if not read or mode then keys[#keys + 1] = key end
  end
end
return { page[1], keys }
