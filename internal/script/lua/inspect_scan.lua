-- Scan the keys of a server.
-- KEYS  1 any key on that server
-- ARGV  1 cursor: 0, or the one of the last reply
--       2 pattern
--       3 about how many keys to scan
--       4 the type of the keys to return
-- RETURN  two elements: the next cursor, 0 at the end; the keys, of hashes only those that look like locks
local page = redis.call('scan', ARGV[1], 'match', ARGV[2], 'count', ARGV[3], 'type', ARGV[4])
if ARGV[4] ~= 'hash' then return page end
local keys = {}
for _, key in ipairs(page[2]) do
  if bytes < 0 then
    keys[#keys + 1] = key
  else
    -- A hash that cannot be checked here is returned. Inspecting it will report the error.
    local read, mode = pcall(lock, key, 20)
    if not read or mode then keys[#keys + 1] = key end
  end
end
return { page[1], keys }
