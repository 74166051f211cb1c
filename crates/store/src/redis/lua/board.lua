-- How every node stands. ask: 1, 2 the time or -1; 3 what to do; 4 the node, 5, 6 the halves of its sequence, 7 its view,
-- 8 for how long; 9 the most bytes of one view, 10 the most nodes.
-- A hash: by node, until when it lives (7 bytes), the sequence (8 bytes), the view.
local ask = cmsgpack.unpack(ARGV[1])
--TIME
local key = KEYS[1]
local function decide()
  if ask[3] == 2 then
    redis.call('HDEL', key, ask[4])
    return { 0 }
  end
  if ask[3] == 1 then
    local there = redis.call('HGET', key, ask[4])
    if there and #there >= 15 then
      local expires, high, low = struct.unpack('>I7I4I4', there)
      local is_older = ask[5] < high or ask[5] == high and ask[6] < low
      if expires > mono and is_older then return { 0 } end
    elseif not there and redis.call('HLEN', key) >= ask[10] then
      error('too many nodes')
    end
    redis.call('HSET', key, ask[4], struct.pack('>I7I4I4', mono + ask[8], ask[5], ask[6]) .. ask[7])
    local left = redis.call('PTTL', key)
    if left < span(ask[8]) then redis.call('PEXPIRE', key, span(ask[8])) end
    return { 0 }
  end
  local answer = {}
  for _, node in ipairs(redis.call('HKEYS', key)) do
    if #answer < 2 * ask[10] and redis.call('HSTRLEN', key, node) <= ask[9] + 15 then
      local there = redis.call('HGET', key, node)
      if #there >= 15 and struct.unpack('>I7', there) > mono then
        answer[#answer + 1] = node
        answer[#answer + 1] = string.sub(there, 8)
      elseif #there >= 15 then
        redis.call('HDEL', key, node)
      end
    end
  end
  return answer
end
local fine, answer = pcall(decide)
if fine then return answer end
-- What is no board is taken away: every node tells again within seconds.
if redis.call('TYPE', key).ok ~= 'hash' then redis.call('DEL', key) end
return { 9, tostring(answer) }
